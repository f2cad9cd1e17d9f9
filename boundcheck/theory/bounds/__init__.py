"""One theorem per file, named after it; each exports `BOUND`. Add a file and it is in the catalogue."""
