"""The worker: what runs inside the containers. `python3 -m tidemill.worker` starts it."""
