"""The review: what a reviewer of a change to stacks must know, most dangerous first (docs/review.md)."""
