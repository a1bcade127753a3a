"""CI's side of the commands: its logins, and the hosts of code that show its reports."""
