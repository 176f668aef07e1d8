package progress

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stampName is what the names of stamps start with, so no handler may have an id that starts with it.
const stampName = "state-of-"

// Stamps are annotations that say whose state an object carries. Annotations get copied along with an object: by "kubectl get -o yaml" and
// "kubectl create", by backups, and by tools that apply exported manifests. So the key of a stamp contains the uid of the object for which
// the state was written: "<prefix>/state-of-<uid>". The value says which baseline belongs to it. kopf ignores these annotations.
//
// The prefix is the same as for [Pin]. The zero Stamps find nothing.
type Stamps struct{ prefix string }

// StampsOf returns the Stamps for a baseline and its stores.
func StampsOf(b Baseline, stores ...Store) Stamps {
	return Stamps{Pin(b, stores...).(pin)[0].prefix + "/" + stampName}
}

// Key returns the annotation key of the stamp for a uid.
func (s Stamps) Key(uid types.UID) string {
	domain := len(s.prefix) - len(stampName)
	if isPlainUID(uid) && len(stampName)+len(uid) <= maxNameLength {
		return s.prefix + string(uid)
	}
	name := s.prefix[domain:] + string(uid)
	return s.prefix[:domain] + shorten(sanitizeName(name), []rune(name), maxNameLength)
}

// isPlainUID reports whether a uid has the form of the API server: hexadecimal digits and dashes.
func isPlainUID(uid types.UID) bool {
	for _, c := range uid {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && c != '-' {
			return false
		}
	}
	return true
}

// Read returns the value of the object's own stamp, and the values of stamps for other uids. isOwn is false if the object has no stamp of
// its own.
func (s Stamps) Read(obj client.Object) (own string, isOwn bool, others []string) {
	if s.prefix == "" {
		return "", false, nil
	}
	for key, value := range obj.GetAnnotations() {
		if !strings.HasPrefix(key, s.prefix) {
			continue
		}
		if key[len(s.prefix):] == string(obj.GetUID()) || key == s.Key(obj.GetUID()) { // the keys of long uids are shortened
			own, isOwn = value, true
		} else {
			others = append(others, value)
		}
	}
	return own, isOwn, others
}

// Clear removes the stamps from the JSON form of an object.
func (s Stamps) Clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool { return strings.HasPrefix(key, s.prefix) })
}
