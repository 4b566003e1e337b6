"""Messages of the control API, generated from the `.proto` file beside this one."""
