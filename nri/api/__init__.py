"""Messages of the container runtime interfaces, generated from the `.proto` files beside this one."""
