"""What every room stands on: checks of parameters, names as text, files."""
