package progress

import (
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
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

	ownedSuffix = "-ofDRS" // suffix of ids on ReplicaSets of Deployments, see isOwnedReplicaSet

	maxNameLength = 63 // maximum length of the name part of an annotation key
	hashLength    = 7  // maximum length of the hyphen and the hash at the end of a shortened name
)

// annotationKeys computes the annotation keys for one prefix.
type annotationKeys struct {
	prefix string
	v2     bool // whether only the keys of the newer generation are used
}

func keysOf(prefix string) annotationKeys {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return annotationKeys{prefix: prefix}
}

func (k annotationKeys) withoutV1() annotationKeys { return annotationKeys{prefix: k.prefix, v2: true} }

// of returns the keys of an id, the preferred key first. Two generations of kopf shorten long ids differently, so unless v2 is set, stores
// write and purge both keys and read the first one with a value. The result is shared and must not be modified.
func (k annotationKeys) of(obj client.Object, id string) []string {
	return k.named(id, isOwnedReplicaSet(obj))
}

// named is like of, for callers that already know whether the object is an owned ReplicaSet. Finding out is slow for an object with
// thousands of owners.
func (k annotationKeys) named(id string, owned bool) []string {
	if owned {
		id += ownedSuffix
	}
	return computedKeys.of(keyQuery{k, id}, k.compute)
}

func (k annotationKeys) compute(id string) []string {
	safe := sanitizeName(id)
	v2 := shorten(safe, []rune(id), maxNameLength)
	v1 := shorten(safe, []rune(safe), k.maxV1Length())
	// With a long prefix, the older generation may compute a name that the API server rejects.
	impossible := strings.HasPrefix(v1, "-") || utf8.RuneCountInString(v1) > maxNameLength
	if k.v2 || v1 == v2 || impossible {
		return []string{k.prefix + "/" + v2}
	}
	return []string{k.prefix + "/" + v2, k.prefix + "/" + v1}
}

// computedKeys caches the keys, because each reconcile needs them many times.
var computedKeys keyCache

// A keyCache caches annotation keys. Its size is limited, because each object can have sub-handlers with different ids, and users can
// invent them.
type keyCache struct {
	mu   sync.RWMutex
	keys map[keyQuery][]string
}

type keyQuery struct {
	annotationKeys
	id string
}

const (
	keyCacheLimit = 10_000
	maxCachedID   = 256 // bytes
)

func (c *keyCache) of(query keyQuery, compute func(id string) []string) []string {
	if len(query.id) > maxCachedID {
		return compute(query.id)
	}
	c.mu.RLock()
	keys, found := c.keys[query]
	c.mu.RUnlock()
	if found {
		return keys
	}
	keys = compute(query.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= keyCacheLimit {
		c.keys = map[keyQuery][]string{}
	}
	c.keys[query] = keys
	return keys
}

// maxV1Length returns the maximum length of a name in the older generation of keys. With a long prefix, it is zero or negative.
func (k annotationKeys) maxV1Length() int {
	return maxNameLength - utf8.RuneCountInString(k.prefix) - 1
}

// check returns the preferred key of an id. It returns an error if the id is empty or reserved, or if the API server would reject the key.
func (k annotationKeys) check(id string) (string, error) {
	if id == "" {
		return "", errEmptyID
	}
	key := k.of(nil, id)[0]
	if err := validation.QualifiedName(key); err != nil {
		return "", fmt.Errorf("id %q cannot be stored as annotation %q: %w", id, key, err)
	}
	if isReserved(strings.TrimPrefix(key, k.prefix+"/")) {
		return "", fmt.Errorf("id %q is reserved by the framework: choose another id, with RenamedFrom if objects already have progress for it", id)
	}
	return key, nil
}

// isReserved reports whether the framework stores its own data under this annotation name.
func isReserved(name string) bool {
	return slices.Contains([]string{markerName, baselineName, touchName, pinName, digestName, "retry", "retried", "revision"}, name) ||
		strings.HasPrefix(name, stampName) || strings.HasPrefix(name, "retry.") || strings.HasPrefix(name, "retried.") || // requests to call handlers
		strings.HasPrefix(name, "revision.")
}

// mark adds the annotation that makes kopf recognize the prefix. The default prefix doesn't need it. kopf also omits it for other prefixes
// that start with "kopf.", but then doesn't recognize them.
func (k annotationKeys) mark(annotations map[string]string) {
	if k.prefix == DefaultPrefix {
		return
	}
	key := k.prefix + "/" + markerName
	if _, ok := annotations[key]; !ok {
		annotations[key] = "yes"
	}
}

// values iterates over the keys and values of an id, except nulls.
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

// has reports whether any value is stored for an id, including a null.
func (k annotationKeys) has(obj client.Object, id string) bool {
	annotations := obj.GetAnnotations()
	return len(annotations) > 0 && slices.ContainsFunc(k.of(obj, id), func(key string) bool {
		_, ok := annotations[key]
		return ok
	})
}

func (k annotationKeys) write(obj client.Object, id, value string) {
	annotations := cloneAnnotations(obj.GetAnnotations())
	for _, key := range k.of(obj, id) {
		annotations[key] = value
	}
	k.mark(annotations)
	k.removeTouch(obj, annotations)
	obj.SetAnnotations(annotations)
}

func (k annotationKeys) remove(obj client.Object, id string) {
	if len(obj.GetAnnotations()) == 0 {
		return
	}
	annotations := cloneAnnotations(obj.GetAnnotations())
	for _, key := range k.of(obj, id) {
		delete(annotations, key)
	}
	k.removeTouch(obj, annotations)
	obj.SetAnnotations(annotations)
}

// removeTouch deletes the annotation that kopf changes to trigger a further event of the object. We don't need it.
func (k annotationKeys) removeTouch(obj client.Object, annotations map[string]string) {
	for _, key := range k.of(obj, touchName) {
		delete(annotations, key)
	}
}

// clear removes all annotations with the prefix from an essence.
func (k annotationKeys) clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool { return strings.HasPrefix(key, k.prefix+"/") })
}

func clearAnnotations(essence map[string]any, match func(key string) bool) {
	meta, _ := essence["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	for key := range annotations {
		if match(key) {
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

// cloneAnnotations returns a copy, because the map of a cached object must not be modified.
func cloneAnnotations(annotations map[string]string) map[string]string {
	out := make(map[string]string, len(annotations)+2)
	maps.Copy(out, annotations)
	return out
}

var nameReplacer = strings.NewReplacer("/", ".", "<", "_", ">", "_")

func sanitizeName(id string) string { return nameReplacer.Replace(id) }

// shorten limits a name to maxLength characters. If the reference text is longer than that, the result ends with its hash.
func shorten(name string, reference []rune, maxLength int) string {
	if len(reference) <= maxLength {
		return name
	}
	suffix := hashSuffix(string(reference))
	return truncateRunes(name, maxLength-len(suffix)) + suffix
}

func hashSuffix(text string) string {
	hash, err := blake2b.New(4, nil)
	if err != nil {
		panic(err) // the constant size is valid
	}
	hash.Write([]byte(text))
	encoded := base64.StdEncoding.EncodeToString(hash.Sum(nil))
	encoded = strings.NewReplacer("+", "-", "/", ".").Replace(encoded)
	return "-" + strings.TrimRight(encoded, "=-.")
}

// truncateRunes cuts a text like a Python slice: a negative length counts from the end.
func truncateRunes(name string, length int) string {
	runes := []rune(name)
	if length < 0 {
		length = max(0, len(runes)+length)
	}
	return string(runes[:min(length, len(runes))])
}

// isOwnedReplicaSet reports whether the object is a ReplicaSet of a Deployment. Kubernetes copies the annotations of a Deployment to its
// ReplicaSets, so without separate keys, a ReplicaSet would have the records of its Deployment.
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

// kindOf returns the kind of an object. Typed clients may leave it empty, so it falls back to the name of the Go type.
func kindOf(obj client.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
