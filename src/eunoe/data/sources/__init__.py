"""Sources of data sets: .npz files, tables, text, image folders and the Hugging Face hub."""
