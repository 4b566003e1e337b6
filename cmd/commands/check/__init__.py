"""Complaints of `pinfold lint` about files, and the forms in which they are told."""
