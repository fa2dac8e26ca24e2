"""What brings a relay and the ledger in step: pull, push, comparison, and the background."""
