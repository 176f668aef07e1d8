package objectstate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// relatedChange marks a change of a related object. Such a change has no resource version of the object itself.
const relatedChange = ""

// maxVersions limits the recorded versions of a key. If there are more, a single related change replaces them.
const maxVersions = 32

// MarkRelatedChange marks key as dirty because a related object has changed, such as an owned object.
func (s *Store[W]) MarkRelatedChange(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markDirty(key, relatedChange)
}

func (s *Store[W]) markDirty(key types.NamespacedName, version string) {
	if !s.options.TrackDirty {
		return
	}
	if len(s.dirty[key]) >= maxVersions {
		s.dirty[key] = []string{relatedChange}
	}
	s.dirty[key] = append(s.dirty[key], version)
}

// TakeForeignChanges returns the marks of key since the last call that are not the writes of this process: the resource versions of changes by other clients,
// and an empty string for each change of a related object. It clears the marks up to the given version of the object. Marks of newer versions remain for the next call.
// With an empty version, it clears all marks.
func (s *Store[W]) TakeForeignChanges(key types.NamespacedName, state *State[W], version string) []string {
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
	own := state.OwnVersions
	state.OwnVersions = slices.DeleteFunc(slices.Clone(own), func(version string) bool { return slices.Contains(taken, version) })
	state.OwnVersions = state.OwnVersions[max(0, len(state.OwnVersions)-maxVersions):] // the watch may skip some versions
	return slices.DeleteFunc(taken, func(version string) bool { return slices.Contains(own, version) })
}
