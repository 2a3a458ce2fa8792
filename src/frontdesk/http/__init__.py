"""What servers share with each other and with their client: how ids are written in URLs, and how a port is opened."""
