"""What relays may lie about: their answers, their word on events, and the connection itself."""
