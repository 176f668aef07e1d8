package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Sweeper is a [Store] that can remove the records of unknown handlers. These are handlers that were removed from the code or renamed
// while an object was being handled.
//
// A Sweeper doesn't know which operator wrote a record, so call Sweep only if no other operator stores records in the same place. By
// default, all operators use kopf's prefix. Package kopf calls Sweep at the end of each cycle, so two operators that use it for the same
// kind need different prefixes.
type Sweeper interface {
	// Sweep removes the records of ids that are neither known nor sub-handlers of a known id (the known id, "/", and a suffix). It keeps
	// records of causes other than create, update, delete and resume, and all values that aren't clearly records.
	Sweep(obj client.Object, known []string) error
}

// Sweep implements [Sweeper].
func (s annotationStore) Sweep(obj client.Object, known []string) error {
	keys := keysOf(s.keys.prefix) // both generations of keys, even for AnnotationsV2
	owned := isOwnedReplicaSet(obj)
	var orphans []string
	for key, value := range obj.GetAnnotations() {
		if strings.Contains(value, "{") && keys.isCandidate(key, owned) && isHandlerRecord([]byte(value)) && !keys.matchesKnown(key, owned, known) {
			orphans = append(orphans, key)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	annotations := cloneAnnotations(obj.GetAnnotations())
	for _, key := range orphans {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
	return nil
}

// isCandidate reports whether the annotation with this key can be a record of the object. owned is the result of isOwnedReplicaSet.
func (k annotationKeys) isCandidate(key string, owned bool) bool {
	name, ours := strings.CutPrefix(key, k.prefix+"/")
	if !ours {
		return false
	}
	for _, own := range []string{markerName, baselineName, touchName, pinName, digestName, "revision"} {
		if slices.Contains(k.named(own, owned), key) {
			return false
		}
	}
	// Kubernetes copies annotations between a Deployment and its ReplicaSets, so the keys of ReplicaSets have a suffix.
	return strings.HasSuffix(name, ownedSuffix) == owned
}

// matchesKnown reports whether a key can belong to a known id or to one of its sub-handlers.
func (k annotationKeys) matchesKnown(key string, owned bool, known []string) bool {
	name := strings.TrimPrefix(key, k.prefix+"/")
	begin, shortened := k.trimHash(name)
	return slices.ContainsFunc(known, func(id string) bool {
		parent := sanitizeName(id) + "."
		return slices.Contains(k.named(id, owned), key) || strings.HasPrefix(name, parent) ||
			// The hash may have replaced the end of the parent's name.
			shortened && strings.HasPrefix(parent, begin)
	})
}

// trimHash returns a name without its hash, and whether it may have been shortened. Shortened names always have the maximum length, except
// in the older generation of keys: with a long prefix, they can have any length there.
func (k annotationKeys) trimHash(name string) (begin string, shortened bool) {
	length, maxV1 := utf8.RuneCountInString(name), k.maxV1Length()
	inV2 := length == maxNameLength
	inV1 := length == maxV1 || maxV1 <= hashLength
	if len(name) < hashLength || !inV1 && !inV2 {
		return "", false
	}
	return name[:len(name)-hashLength], true
}

// Sweep implements [Sweeper].
func (s statusStore) Sweep(obj client.Object, known []string) error {
	value, err := s.field.read(obj)
	if err != nil {
		return err
	}
	records, _ := value.(map[string]any)
	var orphans []fieldChange
	for id, record := range records {
		if text, err := json.Marshal(record); err == nil && isHandlerRecord(text) && !isKnown(id, known) {
			orphans = append(orphans, fieldChange{key: id})
		}
	}
	if err := s.field.changeBelow(obj, orphans); err != nil {
		return fmt.Errorf("removing the records of unknown handlers: %w", err)
	}
	return nil
}

func isKnown(id string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return id == k || strings.HasPrefix(id, k+"/") })
}

// Sweep implements [Sweeper].
func (s smartStore) Sweep(obj client.Object, known []string) error {
	return errors.Join(s.annotations.Sweep(obj, known), s.legacy.Sweep(obj, known))
}

// Sweep implements [Sweeper] for the stores that support it.
func (m multiStore) Sweep(obj client.Object, known []string) error {
	var errs []error
	for _, store := range m {
		if sweeper, ok := store.(Sweeper); ok {
			errs = append(errs, sweeper.Sweep(obj, known))
		}
	}
	return errors.Join(errs...)
}

// isHandlerRecord reports whether a text is clearly a record for one of the standard causes. Other causes belong to callers of [Run].
func isHandlerRecord(text []byte) bool {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return false
	}
	record, err := decodeRecord(text)
	if err != nil || record == nil || !slices.Contains([]string{"create", "update", "delete", "resume", "noop"}, record.Purpose) {
		return false
	}
	complete := true
	for _, name := range []string{"retries", "success", "failure"} {
		_, has := fields[name]
		complete = complete && has
	}
	return complete || !record.Started.IsZero()
}
