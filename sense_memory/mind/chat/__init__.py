"""Conversations: their messages as the log has them, the formats of chat APIs, and what becomes of a full context."""
