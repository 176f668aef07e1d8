package objectstate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// RelatedChange stands for a change that has no resource version of the object: a change of a related object, or a resync.
const RelatedChange = ""

// maxVersions limits the dirty marks of a key and the recorded writes of this process to an object. If a key has too many marks, a mark of a related
// change replaces them. If an object has too many recorded writes, the oldest ones are dropped.
const maxVersions = 32

// MarkRelatedChange marks key as dirty because a related object has changed, such as an owned object.
func (s *Store[W]) MarkRelatedChange(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markDirty(key, RelatedChange)
}

func (s *Store[W]) markDirty(key types.NamespacedName, version string) {
	if !s.options.TrackDirty {
		return
	}
	if len(s.dirty[key]) >= maxVersions {
		s.dirty[key] = []string{RelatedChange}
	}
	s.dirty[key] = append(s.dirty[key], version)
}

// AddOwnVersions records the resource versions of writes of this process to an object, until the watch delivers them. It ignores unknown objects.
func (s *Store[W]) AddOwnVersions(uid types.UID, versions ...string) {
	if !s.options.TrackDirty || len(versions) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[uid] != nil {
		s.ownVersions[uid] = append(s.ownVersions[uid], versions...)
	}
}

// TakeForeignChanges returns the marks of key that are not writes of this process: the resource versions of changes by other clients, and an empty string for
// each change of a related object. It returns and clears the marks up to the given version of the object, and keeps the marks of newer versions for the next
// call. With an empty version, it returns and clears all marks.
func (s *Store[W]) TakeForeignChanges(key types.NamespacedName, uid types.UID, version string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken, newer []string
	for _, marked := range s.dirty[key] {
		if order, err := resourceversion.CompareResourceVersion(marked, version); err == nil && order > 0 {
			newer = append(newer, marked)
		} else {
			taken = append(taken, marked)
		}
	}
	if s.dirty[key] = newer; len(newer) == 0 {
		delete(s.dirty, key)
	}
	own := s.ownVersions[uid]
	undelivered := slices.DeleteFunc(slices.Clone(own), func(version string) bool { return slices.Contains(taken, version) })
	undelivered = undelivered[max(0, len(undelivered)-maxVersions):] // the watch may skip a version, which would then remain here
	if s.ownVersions[uid] = undelivered; len(undelivered) == 0 {
		delete(s.ownVersions, uid)
	}
	return slices.DeleteFunc(taken, func(version string) bool { return slices.Contains(own, version) })
}
