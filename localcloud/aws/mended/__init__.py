"""What moto lacks or gets wrong, and our stacks need. The import of a module puts it into moto's own classes."""
