package peering

import "encoding/json"

// The bodies of merge patches. They have nothing but the records that they are about. [wire]

func writing(identity string, record Record) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{identity: record}})
}

func removing(identity string) ([]byte, error) {
	return json.Marshal(map[string]any{"status": map[string]any{identity: nil}})
}

// cleaning removes records of others: only as they were when they were seen, as their owners may be about to write.
func cleaning(dead []Peer, resourceVersion string) ([]byte, error) {
	status := map[string]any{}
	for _, p := range dead {
		status[p.Identity] = nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"status":   status,
	})
}
