"""Parts of `pinfold simulate`: its devices and its reports for tools."""
