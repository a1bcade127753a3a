"""Lambda functions whose image runs as a process, and EventBridge Scheduler, which invokes them."""
