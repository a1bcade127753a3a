"""The review: what a reviewer of a change to stacks must know, first what is dangerous (docs/review.md)."""
