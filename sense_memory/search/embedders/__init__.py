"""What turns texts into vectors, each imported when it is chosen."""
