"""The source of the reconciler's cloud function. Its modules use relative imports."""
