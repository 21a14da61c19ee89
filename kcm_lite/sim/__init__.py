"""A cluster in a variable: API server, controllers, scheduler and kubelets in virtual time."""
