"""Results to text, JUnit and JSON. Pure: what is written where is the caller's business."""
