"""Reading of tables: files, several files and frames become checked rows of numbers."""
