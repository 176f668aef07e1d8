package objectstate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// RelatedChange stands for a change without a resource version of the object, such as a change of a related object or a resync.
const RelatedChange = ""

// maxVersions limits a key's dirty marks, and the recorded writes of this process to an object. If a key gets too many marks, they are
// replaced with a single one for a related change. Of the recorded writes, the oldest are dropped.
const maxVersions = 32

// MarkRelatedChange marks key as dirty because a related object has changed, such as an owned object.
func (s *Store[W]) MarkRelatedChange(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markDirty(key, dirtyMark{version: RelatedChange})
}

type dirtyMark struct {
	version  string // the object's version after the change; RelatedChange for a related object
	previous string // the version that the watch delivered before
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

// OwnVersion is a resource version that this process has written.
type OwnVersion struct {
	Version string
	// EditedAfter is set if the version contains a concurrent edit too, and is the version from before this edit. If the watch then
	// delivers both at once, as after a list, the version counts as a foreign change.
	EditedAfter string
}

// AddOwnVersion records the resource version of a write by this process until the watch delivers it. Unknown objects are ignored.
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

// TakeForeignChanges returns those marks of key that this process hasn't written itself: the resource versions of changes by other clients,
// and an empty string for each change of a related object. It takes the marks up to the object's given version and leaves newer ones for
// the next call. With an empty version, it takes all of them.
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
	undelivered = undelivered[max(0, len(undelivered)-maxVersions):] // the watch may skip a version, which would stay here forever
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

// isOwn reports whether the change is nothing but a write of this process.
func (m dirtyMark) isOwn(write OwnVersion) bool {
	return m.version == write.Version && (write.EditedAfter == "" || isNewer(m.previous, write.EditedAfter))
}

// isNewer reports whether a resource version is newer than the other. It returns false for versions that can't be compared.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
