-- tests that are not null where a side of an outer join is
SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id AND i.price > 3 WHERE NULLIF(s.qty, i.stock) = 3;
SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id AND i.price > 3 WHERE (i.stock > 0 AND s.qty > 4) = FALSE;
SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id AND i.price > 3 WHERE (i.stock > 0 OR s.qty > 4);
SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id AND i.price > 3 WHERE NOT (i.stock > 0 AND s.qty > 4);
SELECT s.id FROM sales s LEFT JOIN items i ON s.item = i.id AND i.price > 3 WHERE i.stock > 0 OR i.price > 100;
-- nan is above all numbers
SELECT k, MIN(x), MAX(x), COUNT(x), MIN(f), MAX(f) FROM nums GROUP BY k;
SELECT MIN(x), MAX(x), MIN(x) FILTER (WHERE x > 1.5), MIN(f) FROM nums;
SELECT x, f FROM nums WHERE x > 1 OR f >= 1 ORDER BY x DESC, f;
SELECT DISTINCT x FROM nums ORDER BY x NULLS FIRST;
SELECT a.x, COUNT(*) FROM nums a JOIN nums b ON a.x = b.x GROUP BY a.x;
SELECT GREATEST(x, 1.0), LEAST(x, f) FROM nums;
-- variances of numbers far from zero
SELECT VAR_POP(1e9 + qty), STDDEV(1e9 + qty), STDDEV_POP(1e9 + qty) FROM sales;
SELECT note, VARIANCE(1e4 + amount), STDDEV(DISTINCT 1e4 + qty) FROM sales GROUP BY note;
-- aggregates before joins that make many rows
SELECT COUNT(*), SUM(a.qty), MIN(b.amount), AVG(b.amount), SUM(a.qty * b.amount) FROM sales a JOIN sales b ON a.qty = b.qty;
SELECT a.note, COUNT(*), COUNT(b.amount), SUM(a.amount * b.qty), AVG(a.qty), MAX(b.note), SUM(2 * b.qty), SUM(1) FROM sales a JOIN sales b ON a.qty = b.qty AND a.paid = b.paid GROUP BY a.note;
SELECT a.note, b.paid, COUNT(*), AVG(a.amount * b.amount), COUNT(a.amount * b.amount) FROM sales a, sales b, sales c WHERE a.qty = b.qty AND b.qty = c.qty AND a.id < 40 AND b.id > 120 GROUP BY a.note, b.paid;
SELECT COUNT(*), COUNT(b.amount), SUM(b.amount), AVG(b.amount) FROM sales a JOIN sales b ON a.qty = b.qty AND a.id < 0;
SELECT DISTINCT a.note FROM sales a JOIN sales b ON a.qty = b.qty;
SELECT a.qty, SUM(a.qty * b.qty) FROM sales a JOIN sales b ON a.qty < b.qty GROUP BY a.qty HAVING COUNT(*) > 5;
-- sums that are not of all rows, beside sums of reals
SELECT SUM(r0.i1), COUNT(r0.i1), COUNT(*), AVG(POWER(10.0, 2)), MIN(r0.i1) FROM M r0 FULL JOIN G r1 ON r0.i1 = r1.i1;
SELECT boss, QUANTILE_CONT(-1.0 / boss, 0.25), MEDIAN(1.0 / boss) FROM people GROUP BY boss;
SELECT QUANTILE_CONT(x, 0.25), MEDIAN(x) FROM nums WHERE x < 1.0;
-- IN with many literals
SELECT id FROM sales WHERE id IN (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233) ORDER BY id;
SELECT id FROM sales WHERE item NOT IN (1, 2, 3, 5, 8, 13, 21, 34, 55, 89) ORDER BY id;
SELECT id FROM sales WHERE item NOT IN (1, 2, 3, 5, 8, 13, 21, 34, 55, NULL) ORDER BY id;
SELECT id, amount IN (1.5, 3.0, 10.1, 9.9, 8.2, 12.0, 5.5, 7.7, 6.1, NULL) FROM sales ORDER BY id;
SELECT id FROM sales WHERE day IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-02-01', '2024-02-02', '2024-02-03', '2024-03-01', '2024-03-02', '2024-03-03', '2024-06-06') ORDER BY id;
SELECT name FROM items WHERE name LIKE 'p\%%' ESCAPE '\' OR name NOT LIKE '%!_%' ESCAPE '!';
SELECT t FROM nums WHERE t LIKE '%x%%' ESCAPE 'x' OR t ILIKE 'A#_B' ESCAPE '#';
SELECT CAST(amount AS INTEGER), TRY_CAST(x AS BIGINT) FROM sales LEFT JOIN nums ON id = k WHERE amount IS NOT NULL AND (x IS NULL OR x < 100);
SELECT TRY_CAST(x AS BIGINT), TRY_CAST(1e30 AS BIGINT) FROM nums;
-- texts that begin before the first character
SELECT t, SUBSTRING(t, -2, 1), SUBSTRING(t, -9, 8), SUBSTRING(t, -3), SUBSTRING(t, 0, 2), SUBSTRING(t, -2, -1), SUBSTRING(t, 2, -1) FROM nums;
