-- Customers whose spending fell by more than half from one quarter to the next.
WITH spending AS (
    SELECT customer_id, date_trunc('quarter', paid_at) AS quarter, SUM(amount) AS total
    FROM payments
    GROUP BY customer_id, date_trunc('quarter', paid_at)
)
SELECT now.customer_id, before.total AS before_total, now.total AS now_total
FROM spending AS now
JOIN spending AS before
  ON before.customer_id = now.customer_id
 AND before.quarter = now.quarter - INTERVAL '3 months'
WHERE now.total < before.total / 2;
