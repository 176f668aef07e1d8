package peering

import "encoding/json"

// The following functions return merge patches that contain only the affected records.

func recordPatch(identity string, record Record) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{identity: record}})
}

func removalPatch(identity string) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{identity: nil}})
}

// deadPeersPatch removes records of dead peers. It contains the resourceVersion, so that it fails if a peer renews its record in the
// meantime.
func deadPeersPatch(dead []Peer, resourceVersion string) ([]byte, error) {
	status := map[string]any{}
	for _, p := range dead {
		status[p.Identity] = nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"status":   status,
	})
}
