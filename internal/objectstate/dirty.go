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
	s.markDirty(key, dirtyMark{version: RelatedChange})
}

// dirtyMark is a change of the object or of a related object.
type dirtyMark struct {
	version  string // of the object after the change; RelatedChange for a related object
	previous string // the version that the watch has shown before
}

func (s *Store[W]) markDirty(key types.NamespacedName, mark dirtyMark) {
	if !s.options.TrackDirty {
		return
	}
	if len(s.dirty[key]) >= maxVersions {
		s.dirty[key] = []dirtyMark{{version: RelatedChange}}
	}
	s.dirty[key] = append(s.dirty[key], mark)
}

// OwnVersion is a resource version that a write of this process has created.
type OwnVersion struct {
	Version string
	// EditedAfter is set if the version also contains a change by another client, which was made after this version of the object. The version is then a
	// foreign change if the watch shows it together with this change, as after a list.
	EditedAfter string
}

// AddOwnVersion records the resource version of a write of this process to an object, until the watch delivers it. It ignores unknown objects.
func (s *Store[W]) AddOwnVersion(uid types.UID, version OwnVersion) {
	if !s.options.TrackDirty {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[uid] != nil {
		s.ownVersions[uid] = append(s.ownVersions[uid], version)
	}
}

// TakeForeignChanges returns the marks of key that are not writes of this process: the resource versions of changes by other clients, and an empty string for
// each change of a related object. It returns and clears the marks up to the given version of the object, and keeps the marks of newer versions for the next
// call. With an empty version, it returns and clears all marks.
func (s *Store[W]) TakeForeignChanges(key types.NamespacedName, uid types.UID, version string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var taken, newer []dirtyMark
	for _, marked := range s.dirty[key] {
		if isNewer(marked.version, version) {
			newer = append(newer, marked)
		} else {
			taken = append(taken, marked)
		}
	}
	if s.dirty[key] = newer; len(newer) == 0 {
		delete(s.dirty, key)
	}
	own := s.ownVersions[uid]
	undelivered := slices.DeleteFunc(slices.Clone(own), func(v OwnVersion) bool {
		return slices.ContainsFunc(taken, func(m dirtyMark) bool { return m.version == v.Version })
	})
	undelivered = undelivered[max(0, len(undelivered)-maxVersions):] // the watch may skip a version, which would then remain here
	if s.ownVersions[uid] = undelivered; len(undelivered) == 0 {
		delete(s.ownVersions, uid)
	}
	var foreign []string
	for _, m := range taken {
		if !slices.ContainsFunc(own, m.isOwn) {
			foreign = append(foreign, m.version)
		}
	}
	return foreign
}

// isOwn reports whether the change consists only of a write of this process.
func (m dirtyMark) isOwn(write OwnVersion) bool {
	return m.version == write.Version && (write.EditedAfter == "" || isNewer(m.previous, write.EditedAfter))
}

// isNewer reports whether a resource version is newer than another one. Versions that cannot be compared are not newer.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
