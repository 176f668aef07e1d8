package objectstate

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

type memosKey struct{}

// IntoContext gives handlers the memos of their object.
func IntoContext(ctx context.Context, memos *Memos) context.Context {
	return context.WithValue(ctx, memosKey{}, memos)
}

// FromContext returns the memos of the object that a handler is called for; nil outside of handlers.
func FromContext(ctx context.Context) *Memos {
	memos, _ := ctx.Value(memosKey{}).(*Memos)
	return memos
}

// Memos returns the memos of an object. Those of one that is forgotten already are lost.
func (i *Inventory) Memos(uid types.UID) *Memos {
	i.mu.Lock()
	defer i.mu.Unlock()
	memory, known := i.memories[uid]
	if !known {
		return &Memos{}
	}
	if memory.Memos == nil {
		memory.Memos = &Memos{}
	}
	return memory.Memos
}
