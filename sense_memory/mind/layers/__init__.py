"""The layered memory: passages, topics and identity, and the pipeline that drafts an answer with them."""
