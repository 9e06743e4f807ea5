"""Programs that are run on a machine with a GPU, and the recorder of what they brought back."""
