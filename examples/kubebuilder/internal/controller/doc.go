// Package controller contains the handlers of orders, the reconciler of invoices, and the reconciler and handlers of
// parcels.
package controller
