"""Who is told of which change: the resources that clients subscribed to, and the messages that they are sent."""
