package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
)

// Name is the annotation's name, without its prefix.
const Name = "revision"

// A Key is the annotation's key. A nil Key means that the objects have no such annotation.
type Key struct{ prefix string }

// NewKey returns the key with the prefix of the operator's annotations.
func NewKey(prefix string) *Key { return &Key{prefix} }

func (k *Key) String() string { return k.prefix + "/" + Name }

// A Note says with which revisions of its handlers an object was handled.
type Note struct {
	UID types.UID `json:"uid"`
	// Baseline is the digest of the last-handled configuration.
	Baseline string `json:"baseline"`
	// Entered is when a rollout has taken up the object. It is nil once all handlers have finished, and without a rollout.
	Entered *time.Time `json:"entered,omitempty"`
	// Target is what the rollout is for: the text of the declared revisions, or "schema".
	Target string `json:"target,omitempty"`
	// Generation is the object's generation after a cycle that has handled all of the object, and 0 if it isn't known. If only the essence
	// has changed since, but not the generation, the change comes from the schema.
	Generation int64 `json:"generation,omitempty"`
	// Schema is how the last change of the schema was handled.
	Schema *Outcome `json:"schema,omitempty"`
	// Pending are the revisions that unfinished handlers are called for, by id.
	Pending map[string]int `json:"pending,omitempty"`
	// Handlers are the handlers that have finished, by id.
	Handlers map[string]Outcome `json:"handlers,omitempty"`
}

// An Outcome says how the first call with a handler's revision has ended.
type Outcome struct {
	Revision int       `json:"revision,omitempty"`
	Ended    time.Time `json:"ended"`
	// Cause is what the handler was called for, such as "revision" or "update".
	Cause  string `json:"cause,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// Read returns the note on an object. It is empty if there is none that counts. baseline returns the digest of the object's last-handled
// configuration.
func (k *Key) Read(obj client.Object, baseline func() string) Note {
	return k.read(obj.GetAnnotations(), obj.GetUID(), baseline)
}

func (k *Key) read(all map[string]string, uid types.UID, baseline func() string) (n Note) {
	if k == nil {
		return Note{}
	}
	text, found := all[k.String()]
	if !found || json.Unmarshal([]byte(text), &n) != nil || n.UID != uid || n.Baseline != baseline() {
		return Note{}
	}
	return n
}

// Change changes the note in an object's annotations. A note that is empty after that is removed.
func (k *Key) Change(all map[string]string, uid types.UID, baseline func() string, change func(*Note)) {
	n := k.read(all, uid, baseline)
	before := n
	before.Handlers, before.Pending = maps.Clone(n.Handlers), maps.Clone(n.Pending)
	if change(&n); n.equal(before) {
		return
	}
	if n.Entered == nil && n.Target == "" && n.Schema == nil && n.Generation == 0 && len(n.Pending)+len(n.Handlers) == 0 {
		delete(all, k.String())
		return
	}
	n.UID, n.Baseline = uid, baseline()
	all[k.String()] = n.encode()
	annotations.Mark(all, k.prefix)
}

// Renew keeps a note that counts before a write counting after it. before and after are the digests of the last-handled configuration.
func (k *Key) Renew(obj client.Object, before, after func() string) {
	if k == nil || obj.GetAnnotations()[k.String()] == "" {
		return
	}
	n := k.Read(obj, before)
	if n.UID == "" || n.Baseline == after() {
		return
	}
	n.Baseline = after()
	all := obj.GetAnnotations()
	all[k.String()] = n.encode()
	obj.SetAnnotations(all)
}

func (n *Note) encode() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic("revision: encode the note: " + err.Error()) // only years outside of 0 to 9999 have no JSON form
	}
	return string(text)
}

func (n *Note) equal(other Note) bool {
	isSameOutcome := func(a, b Outcome) bool {
		return a.Revision == b.Revision && a.Cause == b.Cause && a.Failed == b.Failed && a.Ended.Equal(b.Ended)
	}
	return n.Generation == other.Generation && n.Target == other.Target && maps.Equal(n.Pending, other.Pending) && isSame(n.Entered, other.Entered, time.Time.Equal) && isSame(n.Schema, other.Schema, isSameOutcome) &&
		maps.EqualFunc(n.Handlers, other.Handlers, isSameOutcome)
}

func isSame[T any](a, b *T, equal func(a, b T) bool) bool {
	return a == nil && b == nil || a != nil && b != nil && equal(*a, *b)
}

// Due returns which of the handlers have a newer revision than the object was handled with. revisions are the declared ones by id, and
// the result has the order of ids.
func (n *Note) Due(revisions map[string]int, ids []string) (due []string) {
	for _, id := range ids {
		if wanted, isDeclared := revisions[id]; isDeclared && n.Handlers[id].Revision < wanted {
			due = append(due, id)
		}
	}
	return due
}

// Set notes an outcome. Of several with the same revision, the first one counts, but a success repairs a failure.
func (n *Note) Set(id string, o Outcome) {
	if noted := n.Handlers[id]; noted.Revision == o.Revision {
		if noted.Failed && !o.Failed {
			noted.Failed = false
			n.Handlers[id] = noted
		}
		return
	}
	if n.Handlers == nil {
		n.Handlers = map[string]Outcome{}
	}
	o.Ended = o.Ended.UTC().Truncate(time.Second)
	n.Handlers[id] = o
}

// SetPending notes the revisions that these handlers are called for.
func (n *Note) SetPending(revisions map[string]int, ids []string) {
	n.Pending = nil
	for _, id := range ids {
		if n.Pending == nil {
			n.Pending = map[string]int{}
		}
		n.Pending[id] = revisions[id]
	}
}

// Retain removes the outcomes of handlers that no longer have a revision.
func (n *Note) Retain(revisions map[string]int) {
	maps.DeleteFunc(n.Handlers, func(id string, _ Outcome) bool { _, isDeclared := revisions[id]; return !isDeclared })
}

// RolledOut returns when the object was handled last for a revision of its handlers or for a change of the schema, and when a handler has
// failed last. The times are zero if there was none.
func (n *Note) RolledOut(revisions map[string]int) (ended, failed time.Time) {
	all := make([]Outcome, 0, len(n.Handlers)+1)
	if n.Schema != nil {
		all = append(all, *n.Schema)
	}
	for id, o := range n.Handlers {
		if o.Cause == Name && o.Revision == revisions[id] {
			all = append(all, o)
		}
	}
	for _, o := range all {
		if o.Ended.After(ended) {
			ended = o.Ended
		}
		if o.Failed && o.Ended.After(failed) {
			failed = o.Ended
		}
	}
	return ended, failed
}

// Rename gives a handler what the note says about its earlier id, unless it says something about the handler itself.
func (n *Note) Rename(earlier, id string) {
	if pending := n.Pending[earlier]; pending > 0 && n.Pending[id] == 0 {
		n.Pending[id] = pending
	}
	o, isNoted := n.Handlers[earlier]
	if _, isNewer := n.Handlers[id]; isNoted && !isNewer {
		n.Handlers[id] = o
	}
}

// Clear removes the note from the JSON form of an object.
func (k *Key) Clear(content map[string]any) {
	if k == nil {
		return
	}
	meta, _ := content["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	delete(all, k.String())
}

// Describe returns the revisions as text, such as "provision 3".
func Describe(revisions map[string]int) string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(revisions)) {
		all = append(all, fmt.Sprintf("%s %d", id, revisions[id]))
	}
	return strings.Join(all, ", ")
}

// A Standing says where an object stands in a rollout.
type Standing struct {
	UID types.UID
	// Due is true if handlers have newer revisions than the object was handled with, or if the schema has changed.
	Due bool
	// BySchema is true if the schema has changed.
	BySchema bool
	// Busy is true if the revisions wait until something else is handled.
	Busy bool
	// Entered is when the rollout has taken up the object, and zero if it hasn't, or if the object is finished.
	Entered time.Time
	// Ended is when the object was handled last for a revision or a change of the schema, and Failed when a handler has failed last. They
	// are zero if there was none.
	Ended, Failed time.Time
	// Annotations are the object's. They must not be changed.
	Annotations map[string]string
}
