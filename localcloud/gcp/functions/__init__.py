"""Services of Cloud Run and functions, which run as processes, and the scheduler that calls them."""
