"""What `conversation` is made of: messages as they are stored, the formats of chat APIs, the index, compaction."""
