// Package controller has what this operator does: handlers for orders, a reconciler for invoices, and for parcels a
// reconciler among handlers.
package controller
