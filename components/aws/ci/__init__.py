"""CI on AWS: its identities and what they may do."""
