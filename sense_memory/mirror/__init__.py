"""The live mirror: folders of text files, such as the memory of a coding agent, kept in step with memory on every machine."""
