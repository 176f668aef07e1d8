package objectstate

// Overlay is the framework's part of an object (records, baseline, pin) that the API server has rejected. The engine handles the
// object as if this part were stored, until the process ends.
type Overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch map[string]any
	// Content is the JSON form of the object for which the API server rejected the patch.
	Content map[string]any
	// Message is the error message of the API server.
	Message string
}
