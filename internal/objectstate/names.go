package objectstate

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// names finds the states of existing objects by key. It maps hashes instead of keys, because the map takes up a large part of the memory
// per object. It only holds states with an observed object, under that object's key.
type names[W any] struct {
	hash   func(types.NamespacedName) uint64
	byHash map[uint64]*State[W]
	others map[types.NamespacedName]*State[W] // states whose hash is taken by a different key
}

func newNames[W any]() names[W] {
	seed := maphash.MakeSeed()
	return names[W]{
		hash:   func(key types.NamespacedName) uint64 { return maphash.Comparable(seed, key) },
		byHash: map[uint64]*State[W]{},
		others: map[types.NamespacedName]*State[W]{},
	}
}

// get returns the state of the object with a key, or nil.
func (n *names[W]) get(key types.NamespacedName) *State[W] {
	if state := n.byHash[n.hash(key)]; state.isOf(key) {
		return state
	}
	return n.others[key]
}

func (n *names[W]) set(state *State[W]) {
	key := client.ObjectKeyFromObject(state.observed)
	hash := n.hash(key)
	if stored := n.byHash[hash]; stored != nil && !stored.isOf(key) {
		n.others[key] = state
		return
	}
	n.byHash[hash] = state
	delete(n.others, key) // the other key with this hash may have been removed
}

func (n *names[W]) remove(key types.NamespacedName) {
	if hash := n.hash(key); n.byHash[hash].isOf(key) {
		delete(n.byHash, hash)
	} else {
		delete(n.others, key)
	}
}

// removeState removes a state before its observed object changes, unless a different state has taken its key.
func (n *names[W]) removeState(state *State[W]) {
	if state.observed == nil {
		return
	}
	if key := client.ObjectKeyFromObject(state.observed); n.get(key) == state {
		n.remove(key)
	}
}

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

// isOf reports whether the observed object has this key. It returns false for a nil state.
func (s *State[W]) isOf(key types.NamespacedName) bool {
	return s != nil && s.observed.GetName() == key.Name && s.observed.GetNamespace() == key.Namespace
}
