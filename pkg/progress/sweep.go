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

// A Sweeper is a [Store] that finds records of handlers which nobody knows any more: those that were
// removed from the code, or renamed, while an object was being handled.
//
// It cannot tell whose they were. Where another operator keeps its records in the same place (by default
// all use the prefix of kopf), they look like leftovers: sweep only a place of your own. Package kopf
// sweeps when a cycle ends: two of its operators on one kind need places of their own in any case.
type Sweeper interface {
	// Sweep removes from the object what is clearly the record of an id that is neither known nor a
	// sub-handler of a known one (the known id, "/", and more). Records of other causes than create,
	// update, delete and resume stay; so does all that may be something else.
	Sweep(obj client.Object, known []string) error
}

// Sweep implements [Sweeper].
func (s annotationStore) Sweep(obj client.Object, known []string) error {
	keys := keysOf(s.keys.prefix) // of both generations: what is under an older key has its handler, too
	var strays []string
	for key, value := range obj.GetAnnotations() {
		if keys.mayBeStray(obj, key) && isLeftover([]byte(value)) && !keys.mayBelong(obj, key, known) {
			strays = append(strays, key)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	annotations := cloned(obj.GetAnnotations())
	for _, key := range strays {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
	return nil
}

// mayBeStray reports whether a key is for a record of some handler of this object.
func (k annotationKeys) mayBeStray(obj client.Object, key string) bool {
	name, ours := strings.CutPrefix(key, k.prefix+"/")
	if !ours {
		return false
	}
	for _, own := range []string{markerName, baselineName, touchName, pinName, digestName} {
		if slices.Contains(k.of(obj, own), key) {
			return false
		}
	}
	// Kubernetes copies annotations between a Deployment and its ReplicaSets: each has its own names.
	return strings.HasSuffix(name, ownedSuffix) == isOwnedReplicaSet(obj)
}

// mayBelong reports whether a key may be that of a known id, or of a sub-handler of one.
func (k annotationKeys) mayBelong(obj client.Object, key string, known []string) bool {
	name := strings.TrimPrefix(key, k.prefix+"/")
	begin, shortened := k.unhashed(name)
	return slices.ContainsFunc(known, func(id string) bool {
		parent := safeName(id) + "."
		return slices.Contains(k.of(obj, id), key) || strings.HasPrefix(name, parent) ||
			// The end of the parent's own name may have been cut away.
			shortened && strings.HasPrefix(parent, begin)
	})
}

// unhashed returns the beginning of a name that may have been shortened, without the hash: only names
// that are as long as can be may have been. For long prefixes the older generation had no such length.
func (k annotationKeys) unhashed(name string) (begin string, shortened bool) {
	length, budget := utf8.RuneCountInString(name), k.v1Budget()
	inV2 := length == maxNameLength
	inV1 := length == budget || budget <= hashLength
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
	var strays []string
	for id, record := range records {
		if text, err := json.Marshal(record); err == nil && isLeftover(text) && !belongs(id, known) {
			strays = append(strays, id)
		}
	}
	if err := s.field.remove(obj, strays...); err != nil {
		return fmt.Errorf("removing the progress of unknown handlers: %w", err)
	}
	return nil
}

func belongs(id string, known []string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return id == k || strings.HasPrefix(id, k+"/") })
}

// Sweep implements [Sweeper].
func (s smartStore) Sweep(obj client.Object, known []string) error {
	return errors.Join(s.annotations.Sweep(obj, known), s.legacy.Sweep(obj, known))
}

// Sweep implements [Sweeper], for those of its stores that do.
func (m multiStore) Sweep(obj client.Object, known []string) error {
	var problems []error
	for _, store := range m {
		if sweeper, ok := store.(Sweeper); ok {
			problems = append(problems, sweeper.Sweep(obj, known))
		}
	}
	return errors.Join(problems...)
}

// isLeftover reports whether a text is clearly a record of a handler, of a cause that is told from the
// state of the object. Causes of other names are somebody's own, see [Run].
func isLeftover(text []byte) bool {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return false
	}
	record, err := decodeRecord(text)
	if err != nil || record == nil || !slices.Contains([]string{"create", "update", "delete", "resume"}, record.Purpose) {
		return false
	}
	counted := true
	for _, name := range []string{"retries", "success", "failure"} {
		_, has := fields[name]
		counted = counted && has
	}
	return counted || !record.Started.IsZero()
}
