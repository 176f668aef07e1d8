package controller

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Errors of a warehouse.
var (
	ErrUnknownItem = errors.New("unknown item")
	ErrSoldOut     = errors.New("not enough items in stock")
)

// A Warehouse represents an external system. Its operations are idempotent.
type Warehouse struct {
	mu       sync.Mutex
	stock    map[string]int32
	reserved map[types.NamespacedName]reservation
}

type reservation struct {
	item     string
	quantity int32
}

// NewWarehouse returns a warehouse with the items.
func NewWarehouse(stock map[string]int32) *Warehouse {
	return &Warehouse{stock: stock, reserved: map[types.NamespacedName]reservation{}}
}

// Reserve reserves items for an order and replaces an earlier reservation. If it returns ErrUnknownItem or ErrSoldOut,
// the earlier reservation remains.
func (w *Warehouse) Reserve(order types.NamespacedName, item string, quantity int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	free, known := w.stock[item]
	if !known {
		return ErrUnknownItem
	}
	before := w.reserved[order]
	if before.item == item {
		free += before.quantity
	}
	if quantity > free {
		return ErrSoldOut
	}
	w.giveBack(order)
	w.stock[item] -= quantity
	w.reserved[order] = reservation{item, quantity}
	return nil
}

// Release ends a reservation.
func (w *Warehouse) Release(order types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveBack(order)
}

// Left returns the number of free items.
func (w *Warehouse) Left(item string) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stock[item]
}

func (w *Warehouse) giveBack(order types.NamespacedName) {
	if before, found := w.reserved[order]; found {
		w.stock[before.item] += before.quantity
		delete(w.reserved, order)
	}
}
