"""The mind: log, conversations, blocks, archive, topics and identity of an agent, on the same ledger as its memories."""
