package progress

import (
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

const (
	// DefaultPrefix is the annotation prefix of kopf.
	DefaultPrefix = "kopf.zalando.org"

	markerName   = "kopf-managed"
	baselineName = "last-handled-configuration"
	touchName    = "touch-dummy"

	ownedSuffix = "-ofDRS" // of ids on objects whose annotations are copied by Kubernetes

	maxNameLength = 63 // of the part of an annotation's key behind the slash
	hashLength    = 7  // of the end of a name that was too long
)

// annotationKeys computes the keys of one prefix.
type annotationKeys struct {
	prefix string
	v2     bool // only the newer generation
}

func keysOf(prefix string) annotationKeys {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return annotationKeys{prefix: prefix}
}

func (k annotationKeys) onlyV2() annotationKeys { return annotationKeys{prefix: k.prefix, v2: true} }

// of returns the keys for an id, the preferred one first. Two generations of kopf have shortened
// long ids differently: both keys are written and purged, the first with a value is read, unless the
// older generation is not wanted.
func (k annotationKeys) of(obj client.Object, id string) []string {
	if isOwnedReplicaSet(obj) {
		id += ownedSuffix
	}
	safe := safeName(id)
	v2 := shortened(safe, []rune(id), maxNameLength)
	v1 := shortened(safe, []rune(safe), k.v1Budget())
	// Long prefixes left the older names no room: no server has ever taken what came out then.
	impossible := strings.HasPrefix(v1, "-") || utf8.RuneCountInString(v1) > maxNameLength
	if k.v2 || v1 == v2 || impossible {
		return []string{k.prefix + "/" + v2}
	}
	return []string{k.prefix + "/" + v2, k.prefix + "/" + v1}
}

// v1Budget is how long the older names may be; not positive for long prefixes.
func (k annotationKeys) v1Budget() int { return maxNameLength - utf8.RuneCountInString(k.prefix) - 1 }

// check says whether the API server would take the keys of an id, and returns the main one.
func (k annotationKeys) check(id string) (string, error) {
	if id == "" {
		return "", errEmptyID
	}
	key := k.of(nil, id)[0]
	if err := validation.QualifiedName(key); err != nil {
		return "", fmt.Errorf("the id %q cannot be stored as the annotation %q: %w; "+
			"use letters, digits, '-', '_', '.' and '/' within", id, key, err)
	}
	switch strings.TrimPrefix(key, k.prefix+"/") {
	case markerName, baselineName, touchName, pinName, digestName:
		return "", fmt.Errorf("the id %q is the name of an annotation of the framework's own: choose another", id)
	}
	return key, nil
}

// mark says on the object whose annotations with this prefix are, unless everybody knows the prefix. kopf leaves the
// mark out for all prefixes that begin with "kopf.", though it would not recognise them without (SE-24).
func (k annotationKeys) mark(annotations map[string]string) {
	if k.prefix == DefaultPrefix {
		return
	}
	key := k.prefix + "/" + markerName
	if _, ok := annotations[key]; !ok {
		annotations[key] = "yes"
	}
}

// values goes through what stands under the keys of an id, nulls left out.
func (k annotationKeys) values(obj client.Object, id string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		annotations := obj.GetAnnotations()
		if len(annotations) == 0 {
			return
		}
		for _, key := range k.of(obj, id) {
			value, ok := annotations[key]
			if ok && strings.TrimSpace(value) != "null" && !yield(key, value) {
				return
			}
		}
	}
}

// has reports whether any value is stored for an id, a null included.
func (k annotationKeys) has(obj client.Object, id string) bool {
	annotations := obj.GetAnnotations()
	return len(annotations) > 0 && slices.ContainsFunc(k.of(obj, id), func(key string) bool {
		_, ok := annotations[key]
		return ok
	})
}

func (k annotationKeys) write(obj client.Object, id, value string) {
	annotations := cloned(obj.GetAnnotations())
	for _, key := range k.of(obj, id) {
		annotations[key] = value
	}
	k.mark(annotations)
	k.untouch(obj, annotations)
	obj.SetAnnotations(annotations)
}

func (k annotationKeys) remove(obj client.Object, id string) {
	if len(obj.GetAnnotations()) == 0 {
		return
	}
	annotations := cloned(obj.GetAnnotations())
	for _, key := range k.of(obj, id) {
		delete(annotations, key)
	}
	k.untouch(obj, annotations)
	obj.SetAnnotations(annotations)
}

// untouch drops what kopf leaves to wake itself up. It rides on other changes: nothing here needs it.
func (k annotationKeys) untouch(obj client.Object, annotations map[string]string) {
	for _, key := range k.of(obj, touchName) {
		delete(annotations, key)
	}
}

// clear removes everything under the prefix from an essence.
func (k annotationKeys) clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool { return strings.HasPrefix(key, k.prefix+"/") })
}

func clearAnnotations(essence map[string]any, own func(key string) bool) {
	meta, _ := essence["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	for key := range annotations {
		if own(key) {
			delete(annotations, key)
		}
	}
	if annotations != nil && len(annotations) == 0 {
		delete(meta, "annotations")
	}
	if meta != nil && len(meta) == 0 {
		delete(essence, "metadata")
	}
}

// cloned copies the annotations: the map of a cached object is not ours to change.
func cloned(annotations map[string]string) map[string]string {
	out := make(map[string]string, len(annotations)+2)
	maps.Copy(out, annotations)
	return out
}

var unsafeInNames = strings.NewReplacer("/", ".", "<", "_", ">", "_")

func safeName(id string) string { return unsafeInNames.Replace(id) }

// shortened fits a name into a budget of characters, ending it with a hash if it does not fit.
// The reference text is both what is measured and what is hashed.
func shortened(name string, reference []rune, budget int) string {
	if len(reference) <= budget {
		return name
	}
	suffix := hashSuffix(string(reference))
	return head(name, budget-len(suffix)) + suffix
}

func hashSuffix(text string) string {
	hash, err := blake2b.New(4, nil)
	if err != nil {
		panic(err) // the size is a constant that the algorithm takes
	}
	hash.Write([]byte(text))
	encoded := base64.StdEncoding.EncodeToString(hash.Sum(nil))
	encoded = strings.NewReplacer("+", "-", "/", ".").Replace(encoded)
	return "-" + strings.TrimRight(encoded, "=-.")
}

// head cuts as kopf's language does: a negative length counts from the end.
func head(name string, length int) string {
	runes := []rune(name)
	if length < 0 {
		length = max(0, len(runes)+length)
	}
	return string(runes[:min(length, len(runes))])
}

// isOwnedReplicaSet recognises the objects to which Kubernetes copies the annotations of their
// owners: without a mark of its own, a ReplicaSet would take its Deployment's progress for its own.
func isOwnedReplicaSet(obj client.Object) bool {
	if obj == nil || kindOf(obj) != "ReplicaSet" {
		return false
	}
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == "Deployment" {
			return true
		}
	}
	return false
}

// kindOf tells the kind of an object, of a Go type too: typed clients may leave it out.
func kindOf(obj client.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
