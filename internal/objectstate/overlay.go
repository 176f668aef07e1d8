package objectstate

// An Overlay is the part of an object that belongs to the framework (records, baseline, pin) and that the API server has rejected. As long
// as the process lives, the object is handled as if that part were stored.
type Overlay struct {
	// Patch is the rejected part, as a JSON merge patch.
	Patch map[string]any
	// Content is the JSON form of the object for which the API server rejected the patch.
	Content map[string]any
	// Message is the answer of the API server.
	Message string
}
