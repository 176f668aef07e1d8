package objectstate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// fromOutside stands for a stir that no version of the object tells of.
const fromOutside = ""

// maxStirs is how many versions are told apart.
const maxStirs = 32

// Stir takes note that something has changed around the objects of a name: an owned one, say.
func (i *Inventory) Stir(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stir(key, fromOutside)
}

func (i *Inventory) stir(key types.NamespacedName, version string) {
	if !i.wants.Stirs {
		return
	}
	if len(i.stirred[key]) >= maxStirs {
		i.stirred[key] = []string{fromOutside}
	}
	i.stirred[key] = append(i.stirred[key], version)
}

// Unstir forgets what has changed around a name of which there is no object: the children of an owner may go after it. An object that
// comes meanwhile is stirred by its own version.
func (i *Inventory) Unstir(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	versions := slices.DeleteFunc(i.stirred[key], func(version string) bool { return version == fromOutside })
	if i.stirred[key] = versions; len(versions) == 0 {
		delete(i.stirred, key)
	}
}

// Stirred reports, once, whether anything but our own writes has changed an object or its surroundings
// since it was last asked for. What is newer than the version at hand, if that is known, is for the next time: whoever asks has not seen it.
func (i *Inventory) Stirred(key types.NamespacedName, memory *Memory, version string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	var by, newer []string
	for _, one := range i.stirred[key] {
		if order, err := resourceversion.CompareResourceVersion(one, version); err == nil && order > 0 {
			newer = append(newer, one)
		} else {
			by = append(by, one)
		}
	}
	if i.stirred[key] = newer; len(newer) == 0 {
		delete(i.stirred, key)
	}
	own := memory.Own
	memory.Own = slices.DeleteFunc(slices.Clone(own), func(version string) bool { return slices.Contains(by, version) })
	memory.Own = memory.Own[max(0, len(memory.Own)-maxStirs):] // the watch may pass over some
	return slices.ContainsFunc(by, func(version string) bool { return !slices.Contains(own, version) })
}
