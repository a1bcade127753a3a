"""The source of the reconciler: what the cloud function runs. Its modules import each other by plain names there."""
