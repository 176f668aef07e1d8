package objectstate

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// names finds the states of existing objects by their keys. Its map contains hashes instead of keys, because the map is a large part of the memory for each object.
// It only contains states with an observed object, under the key of this object.
type names[W any] struct {
	hash   func(types.NamespacedName) uint64
	byHash map[uint64]*State[W]
	others map[types.NamespacedName]*State[W] // the states whose hash another key has
}

func newNames[W any]() names[W] {
	seed := maphash.MakeSeed()
	return names[W]{
		hash:   func(key types.NamespacedName) uint64 { return maphash.Comparable(seed, key) },
		byHash: map[uint64]*State[W]{},
		others: map[types.NamespacedName]*State[W]{},
	}
}

// get returns the state of the object of a key; nil if there is none.
func (n *names[W]) get(key types.NamespacedName) *State[W] {
	if state := n.byHash[n.hash(key)]; state.isOf(key) {
		return state
	}
	return n.others[key]
}

// set stores a state for the key of its observed object.
func (n *names[W]) set(state *State[W]) {
	key := client.ObjectKeyFromObject(state.observed)
	hash := n.hash(key)
	if stored := n.byHash[hash]; stored != nil && !stored.isOf(key) {
		n.others[key] = state
		return
	}
	n.byHash[hash] = state
	delete(n.others, key) // the other key with the hash may have been removed
}

// remove removes the state of a key.
func (n *names[W]) remove(key types.NamespacedName) {
	if hash := n.hash(key); n.byHash[hash].isOf(key) {
		delete(n.byHash, hash)
	} else {
		delete(n.others, key)
	}
}

// removeState removes a state before its observed object changes. Another state may have replaced it.
func (n *names[W]) removeState(state *State[W]) {
	if state.observed == nil {
		return
	}
	if key := client.ObjectKeyFromObject(state.observed); n.get(key) == state {
		n.remove(key)
	}
}

// keys returns the keys for which match returns true.
func (n *names[W]) keys(match func(types.NamespacedName) bool) (keys []types.NamespacedName) {
	for _, state := range n.byHash {
		if key := client.ObjectKeyFromObject(state.observed); match(key) {
			keys = append(keys, key)
		}
	}
	for key := range n.others {
		if match(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// isOf reports whether the observed object has a key. It returns false for a nil state.
func (s *State[W]) isOf(key types.NamespacedName) bool {
	return s != nil && s.observed.GetName() == key.Name && s.observed.GetNamespace() == key.Namespace
}
